package flagvalue

import "testing"

func TestFlagValues(t *testing.T) {
	for text, want := range map[string]float64{"90": 90, "1m30s": 90, "0": 0, "30d": 30 * 86400, "500ms": 0.5, "0.25": 0.25} {
		var v Seconds
		if err := v.Set(text); err != nil || v.Or(-1) != want {
			t.Errorf("%q: %v, %v; want %v", text, v.Or(-1), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "Inf", "1e400", "d", "-1d", "1.5d", "99999999d"} {
		if err := new(Seconds).Set(text); err == nil {
			t.Errorf("%q was taken for a length of time", text)
		}
	}
	var v Memory
	if err := v.Set("4GiB"); err != nil || v != 4096 || v.String() != "4 GiB" {
		t.Errorf("4GiB: %v, %v", v, err)
	}
	for _, text := range []string{"", "0", "-1", "1.5", "much"} {
		if err := v.Set(text); err == nil {
			t.Errorf("%q was taken for memory", text)
		}
	}
}
