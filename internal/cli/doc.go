// Package cli is the command line. Every command is one file with its options,
// a function that makes the cobra command, and a run method. What the commands
// share is in package console; it reaches the daemon through package client and
// the rest of the world through Env, so that a test can be the world.
package cli
