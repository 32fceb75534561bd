// Package tui is the screen of berth top without a terminal: a State, what changes it
// (answers of the daemon, events, keys), what it wants done, and how it looks as lines
// for a width and a height.
//
// It asks no daemon: the command feeds it and carries out what it wants.
//
// Every text from outside goes through plain, which replaces characters that a terminal
// would act on, and characters that terminals draw in different widths: users choose
// the names of leases and programs, and others look at them.
//
// Pure: no clock, no I/O.
package tui
