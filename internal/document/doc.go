// Package document reads what people write into files and send as bodies: YAML
// or JSON, with the number of the line of every value. It is strict, so that
// nothing is read otherwise than it was meant: it refuses an unknown key and
// names the nearest known one, a key that is set twice, anchors, aliases, merge
// keys and tags, a second document, and what is too large or nested too deeply.
// Nothing is expanded, so a small document cannot stand for a large one.
//
// Parse makes a tree of [Node] from a text. The caller walks it with
// [Node.Entries] and [Node.All], which report what is wrong and go on, so that
// people learn of all their mistakes at once.
package document
