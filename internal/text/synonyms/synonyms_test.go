package synonyms

import (
	"slices"
	"strings"
	"testing"
)

// Every word is there once, in small letters, and leads somewhere.
func TestWords(t *testing.T) {
	there := map[string]bool{}
	for _, one := range meanings {
		for word := range strings.SplitSeq(one.words, ", ") {
			if there[word] || word != strings.ToLower(word) || len(strings.Fields(one.see)) == 0 {
				t.Errorf("%q is there twice, has large letters or leads nowhere", word)
			}
			there[word] = true
		}
	}
	for word, m := range All() {
		if len(m.See) == 0 && m.Answer == "" || word != strings.ToLower(word) {
			t.Errorf("%q: %+v", word, m)
		}
	}
}

func TestOf(t *testing.T) {
	for asked, first := range map[string]string{
		"Prometheus": "monitoring", "out  of MEMORY": "troubleshooting", "reservations": "submit", "tmux": "logs", "ps": "jobs", "containers": "docker",
	} {
		if m, is := Of(asked); !is || m.See[0] != first {
			t.Errorf("%q leads to %v, not first to %s", asked, m.See, first)
		}
	}
	if m, is := Of("budgets"); !is || m.Answer != Instead["budget"] || !slices.Contains(m.See, "quota") {
		t.Errorf("budgets: %+v", m)
	}
	if m, is := Of("xyzzy"); is {
		t.Errorf("xyzzy: %+v", m)
	}
	if got := TopicOf("submit"); got != "running-jobs" {
		t.Errorf("submit has the topic %q", got)
	}
}
