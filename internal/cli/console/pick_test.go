package console

import (
	"errors"
	"strings"
	"testing"
)

func TestPick(t *testing.T) {
	mine := []Named{{ID: "train-17", Name: "train"}, {ID: "sweep-18", Name: "sweep"}, {ID: "embedder"}, {ID: "a-b-19", Name: "a-b"}}
	ended := []Named{{ID: "train-3", Name: "train"}, {ID: "train-9", Name: "train"}, {ID: "prep-16", Name: "prep"}, {ID: "prepare-15", Name: "prepare"}, {ID: "job-20"}, {ID: "job-21"}}
	for text, want := range map[string]string{
		"train-17":   "train-17", // the id
		"train-3":    "train-3",  // of one that has ended, although train-17 runs
		"train":      "train-17", // the name, of what runs
		"tr":         "train-17", // the beginning
		"train-":     "",         // a dash ends no name and begins no number
		"train-1":    "",         // never the beginning of train-17
		"emb":        "embedder",
		"embedder":   "embedder",
		"embedder-":  "",
		"s":          "sweep-18",
		"prep":       "prep-16", // a name before a beginning
		"prepa":      "prepare-15",
		"pre":        "prep-16, prepare-15",
		"a":          "a-b-19",
		"a-":         "a-b-19",
		"a-b":        "a-b-19",
		"job":        "job-20, job-21",
		"sweep-18.3": "",
		"":           "",
		"nobody":     "",
	} {
		got, err := Pick(text, mine, ended)
		if said := (*ambiguousError)(nil); errors.As(err, &said) {
			got = strings.Join(said.found, ", ")
		} else if (want == "") != errors.Is(err, ErrNothing) {
			t.Errorf("%q: error %v", text, err)
		}
		if got != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
	}
}
