package words

import "testing"

func TestThousands(t *testing.T) {
	for want, n := range map[string]int64{"0": 0, "999": 999, "1,000": 1000, "12,345": 12345, "1,234,567": 1234567} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for want, n := range map[string]int64{"1 record": 1, "0 records": 0, "1,000 records": 1000} {
		if got := CountThousands(n, "record"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
