package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Mark names an entry by its number and the hash of its line. The zero value
// names none.
type Mark struct {
	Seq  uint64
	Hash string
}

// The words for what happens to the log itself. All other words are those of
// acts.
const (
	Rotate = "rotate" // a new file begins
	Torn   = "torn"   // the line before was cut off by a crash
	Lost   = "lost"   // entries that had been written are missing or changed
)

// The outcomes of an act.
const (
	Done    = "done"
	Failed  = "failed"
	Refused = "refused"
)

// The keys of after in entries about the log itself.
const (
	Oldest = "oldest" // in a Rotate entry: the number of the oldest entry that is kept
	Whole  = "whole"  // in a Torn entry: the hash of the newest entry before the line that was cut off
)

// Texts are clipped, so that no entry fills the log.
const (
	longestText = 1024 // characters of a text
	mostValues  = 200  // of before and after
)

// Line returns an entry as a line of the log, with the newline at its end.
func Line(e api.AuditEntry) []byte {
	e.What, e.Why, e.Object.ID, e.Object.Owner = clip(e.What), clip(e.Why), clip(e.Object.ID), clip(e.Object.Owner)
	e.Who.User, e.Who.Address = clip(e.Who.User), clip(e.Who.Address)
	e.Before, e.After = clipAll(e.Before), clipAll(e.After)
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen: an entry has texts, numbers and a time
	}
	return append(line, '\n')
}

// clip returns a text that is valid UTF-8 and not too long.
func clip(text string) string { return words.Cut(strings.ToValidUTF8(text, "\uFFFD"), longestText) }

// clipAll returns values that are not too long and not too many.
func clipAll(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	clipped := make(map[string]string, len(values))
	for name, value := range values {
		if len(clipped) == mostValues {
			clipped["…"] = fmt.Sprintf("%d more", len(values)-mostValues)
			break
		}
		clipped[clip(name)] = clip(value)
	}
	return clipped
}

// Hash returns the hash of a line, which does not cover the newline at its end.
func Hash(line []byte) string {
	sum := sha256.Sum256(bytes.TrimSuffix(line, []byte("\n")))
	return hex.EncodeToString(sum[:])
}

// Parse reads a line; false if it is no entry.
func Parse(line []byte) (api.AuditEntry, bool) {
	var e api.AuditEntry
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&e); err != nil || d.More() || e.Seq == 0 {
		return api.AuditEntry{}, false
	}
	return e, true
}

// CurrentName is the name of the file that the log is written to.
const CurrentName = "audit.log"

// Rotated are the names of complete files, with the numbers of their first entries.
var Rotated = file.Numbered{Prefix: "audit-", Digits: 20, Suffix: ".log"}
