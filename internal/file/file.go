// Package file reads and writes the files of a daemon so that neither a crash
// nor another user spoils them.
//
// A State is a state file with a value. It is replaced as a whole: after a crash a file
// is the old one or the new one, never half of either. It carries a checksum. A damaged
// one is set aside under another name, so that the daemon can start without it and report
// the damage.
//
// Logs are in a Folder: the journal, the audit log and the events write to its files.
// SealLine gives a line a checksum. Dir is a real folder; tests have one that can crash.
//
// ReadTrusted reads files that decide what the daemon does, such as its configuration,
// rules, tokens, certificates and keys. It refuses a file that somebody other than root
// or the daemon's user can change, whatever its contents, because such a file is a way to
// run commands as the daemon.
//
// Save writes files of users, which may be anywhere, under temporary names that nobody
// can foresee.
package file

import (
	"errors"
	"hash/crc32"
)

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errIrregular = errors.New("it is not a regular file")
)
