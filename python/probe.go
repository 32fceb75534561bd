// Package python holds what the command line has of the Python package.
//
// berth asks the libraries of a Python what they can do with the same program as
// the package itself.
package python

import _ "embed"

// Probe is the program that asks the libraries.
//
//go:embed berth/probe_child.py
var Probe string
