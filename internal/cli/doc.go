// Package cli puts the command line together: the root command, and under it
// the commands of the packages beside it, one group of the help page each.
//
// Every command is one file with its options, a function that makes the cobra
// command, and a run method. Env is the world as they see it, so that a test
// can be the world.
package cli
