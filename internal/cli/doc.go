// Package cli assembles the command line: the root command, and below it the commands
// of the neighbouring packages, one group of the help page each.
//
// Every command is a function that makes the cobra command, with its flags as variables;
// those with several steps have a struct of options. Commands about one object share a
// file. Env is the environment of the commands, which a test can replace.
package cli
