// Package cli assembles the command line: the root command, and below it the commands
// of the neighbouring packages, one group of the help page each.
//
// Every command is one file with its options, a function that makes the cobra command,
// and a run method. Env is the environment of the commands, which a test can replace.
package cli
