// Package document reads YAML and JSON from files and request bodies, with the
// line number of every value.
//
// It is strict, so that it never misreads a text: it refuses an unknown key and
// names the nearest known one, a key that is set twice, anchors, aliases, merge
// keys and tags, a second document, and a text that is too large or nested too
// deeply. It expands nothing, so a small text cannot become a large document.
//
// Parse makes a tree of [Node] from a text. The caller walks it with
// [Node.Entries] and [Node.All], which report mistakes and go on, so that
// people see all their mistakes at once.
//
// Pure: no clock, no I/O.
package document
