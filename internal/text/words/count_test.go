package words

import "testing"

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "run", "0 runs"}, {1, "run", "1 run"}, {2, "run", "2 runs"}, {1_000_000, "record", "1000000 records"},
		{2, "process", "2 processes"}, {2, "batch", "2 batches"}, {2, "box", "2 boxes"}, {2, "dash", "2 dashes"},
		{2, "entry", "2 entries"}, {1, "entry", "1 entry"}, {2, "day", "2 days"}, {2, "y", "2 ys"},
		{2, "GPU", "2 GPUs"}, {3, "more warning", "3 more warnings"}, {-1, "slot", "-1 slots"},
	} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("Count(%d, %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
		if got := Count(int64(c.n), c.noun); got != c.want {
			t.Errorf("Count(int64(%d), %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}

func TestForm(t *testing.T) {
	for n, want := range map[int]string{0: "runs wait", 1: "run waits", 2: "runs wait"} {
		if got := Form(n, "run waits", "runs wait"); got != want {
			t.Errorf("Form(%d) = %q, want %q", n, got, want)
		}
	}
}
