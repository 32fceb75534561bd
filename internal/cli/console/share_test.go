package console

import "testing"

func TestShare(t *testing.T) {
	for text, want := range map[string]Share{"50%": 0.5, "50 %": 0.5, "0.25": 0.25, "100%": 1, "1": 1, "5%": 0.05, "12.5%": 0.125} {
		var v Share
		if err := v.Set(text); err != nil || v != want {
			t.Errorf("%s is %v, %v; want %v", text, v, err, want)
		}
	}
	for _, text := range []string{"", "%", "50", "0", "-1", "101%", "1.1", "4%", "NaN", "Inf%", "half", "0x1p-1%"} {
		v := Share(0.7)
		if err := v.Set(text); err == nil || v != 0.7 {
			t.Errorf("%q is %v, %v", text, v, err)
		}
	}
	if v := Share(0.125); v.String() != "12.5%" {
		t.Errorf("it is written as %s", v.String())
	}
}
