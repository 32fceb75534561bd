// Package tui is the screen of berth top without a terminal: a State, what
// changes it (answers of the daemon, events, keys), what it wants done, and how
// it looks as lines for a width and a height.
//
// It asks nobody anything: the command feeds it and carries out what it wants.
//
// Every text from outside goes through plain, which replaces what a terminal
// would act on and what terminals do not agree on how wide it is: users choose
// the names of leases and programs, and others look at them.
//
// Pure: no clock, no I/O.
package tui
