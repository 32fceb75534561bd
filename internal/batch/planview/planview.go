// Package planview writes plans for people: as a table, as a Mermaid flowchart,
// and as a graph for Graphviz.
//
// A plan goes in and text comes out.
//
// Pure: no clock, no I/O.
package planview

// Width is the default width of a table in columns.
const Width = 80
