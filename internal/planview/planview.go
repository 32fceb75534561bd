// Package planview writes plans for people: as a table, as a Mermaid flowchart,
// and as a graph for Graphviz. A plan goes in and text comes out.
package planview

// Width is how many columns a table of a plan takes where nobody says.
const Width = 80
