// Package prometheus holds the alert rules that come with berth.
//
// The daemon evaluates the same file that a Prometheus reads.
package prometheus

import _ "embed"

// Rules is the text of berth.rules.yml.
//
//go:embed berth.rules.yml
var Rules string

// Name is the name of the file.
const Name = "berth.rules.yml"

// Outside is the group of the rules that only another machine can evaluate: a
// daemon that is down raises no alert about that.
const Outside = "berth-outside"
