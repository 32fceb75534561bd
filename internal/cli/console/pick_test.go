package console

import (
	"errors"
	"strings"
	"testing"
)

func TestPick(t *testing.T) {
	mine := []Named{{ID: "train-17", Name: "train"}, {ID: "sweep-18", Name: "sweep"}, {ID: "embedder"}, {ID: "a-b-19", Name: "a-b"}}
	mine = append(mine, Named{ID: "trio-gpt-2"}, Named{ID: "long2-31"}, Named{ID: "twins-40"}, Named{ID: "twins-41"})
	ended := []Named{{ID: "train-9", Name: "train"}, {ID: "train-3", Name: "train"}, {ID: "prep-16", Name: "prep"}, {ID: "prepare-15", Name: "prepare"}, {ID: "job-21"}, {ID: "job-20"}, {ID: "long-30"}}
	for i := range ended {
		ended[i].Ended = true
	}
	for text, want := range map[string]string{
		"train-17":   "train-17", // the id
		"train-3":    "train-3",  // of one that has ended, although train-17 runs
		"train":      "train-17", // the name, of what runs
		"tr":         "train-17, trio-gpt-2",
		"tri":        "trio-gpt-2", // the beginning
		"sw":         "sweep-18",
		"long":       "long-30", // which has ended, before a beginning of what runs
		"lo":         "long2-31, long-30",
		"long2":      "long2-31",
		"twins":      "twins-40, twins-41",
		"tw":         "twins-40, twins-41",
		"train-":     "", // a dash ends no name and begins no number
		"train-1":    "", // never the beginning of train-17
		"emb":        "embedder",
		"embedder":   "embedder",
		"embedder-":  "",
		"s":          "sweep-18",
		"prep":       "prep-16", // a name before a beginning
		"prepa":      "prepare-15",
		"pre":        "prep-16, prepare-15",
		"jo":         "job-21",
		"a":          "a-b-19",
		"a-":         "a-b-19",
		"a-b":        "a-b-19",
		"job":        "job-21", // the newest of what has ended
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
