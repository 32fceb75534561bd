package console

import "testing"

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"50%": 0.5, "50 %": 0.5, "0.25": 0.25, "100%": 1, "1": 1, "5%": 0.05, "12.5%": 0.125} {
		if v, err := ParseShare(text); err != nil || v != want {
			t.Errorf("%s is %v, %v; want %v", text, v, err, want)
		}
	}
	for _, text := range []string{"", "%", "50", "0", "-1", "101%", "1.1", "4%", "NaN", "Inf%", "half", "0x1p-1%"} {
		if v, err := ParseShare(text); err == nil || v != 0 {
			t.Errorf("%q is %v, %v", text, v, err)
		}
	}
}
