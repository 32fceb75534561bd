// Package pipeline turns pipeline files into plans.
//
// Parse reads a file and finds everything that is wrong with it; Compile takes
// a file and the world as the caller sees it (devices, libraries, what earlier
// runs measured) and decides, before anything runs, on which device each
// pipeline runs, what is converted where, and how much memory it needs at every
// step. A plan is data; Table, Mermaid and DOT write it for people.
//
// The package is pure: the same file and the same world give the same plan.
//
// Pure: no clock, no I/O.
package pipeline
