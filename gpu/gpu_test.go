package gpu

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseMiB(t *testing.T) {
	for text, want := range map[string]MiB{
		"2048": 2048, "4GiB": 4096, "4g": 4096, "4 GB": 4096, "512M": 512, " 1.5GiB ": 1536, "1TiB": 1 << 20, "2048k": 2, "0.5g": 512, "7.3GiB": 7475, "139.75g": 143104,
	} {
		if got, err := ParseMiB(text); err != nil || got != want {
			t.Errorf("ParseMiB(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "not an amount", "GiB": "not an amount", "4 apples": "not an amount", "4GiBs": "not an amount", "1e3": "not an amount", "--4": "not an amount",
		"0": "positive", "-4GiB": "positive", "NaN": "not an amount", "1.5": "whole number", "100k": "whole number",
		"9223372036854775808": "more memory than", "99999999999TiB": "more memory than",
	} {
		if got, err := ParseMiB(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMiB(%q) = %d, %v; want a refusal with %q", text, got, err, want)
		}
	}
}

func TestMemoryReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := MiB(rapid.Int64Range(1, 1<<19).Draw(t, "whole GiB")) << 10
		if got, err := ParseMiB(strings.ReplaceAll(m.String(), " ", "")); m < 1<<20 && (err != nil || got != m) {
			t.Fatalf("%d MiB is written %s, and read back as %d, %v", m, m, got, err)
		}
	})
}

func TestExactMemoryCanBeTyped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := MiB(rapid.Int64Range(1, 1<<30).Draw(t, "amount"))
		if got, err := ParseMiB(m.Exact()); err != nil || got != m {
			t.Fatalf("%d MiB is written %s, and read back as %d, %v", int64(m), m.Exact(), int64(got), err)
		}
		beside := m.ExactBeside(8 << 10)
		if got, err := ParseMiB(beside); err != nil || got != m || strings.HasSuffix(beside, "MiB") {
			t.Fatalf("%d MiB is written %s beside 8 GiB, and read back as %d, %v", int64(m), beside, int64(got), err)
		}
	})
	for m, want := range map[MiB]string{7676: "7.497 GiB", 7680: "7.5 GiB", 4001: "3.908 GiB", 1023: "1023 MiB", 142644: "139.301 GiB", -100: "-100 MiB", 0: "0 MiB", 1 << 20: "1 TiB"} {
		if got := m.Exact(); got != want {
			t.Errorf("%d MiB is written %q, want %q", int64(m), got, want)
		}
	}
}

func TestExactMemoryBesideAnother(t *testing.T) {
	for _, c := range []struct {
		m, other MiB
		want     string
	}{{600, 8192, "0.586 GiB"}, {0, 8192, "0 GiB"}, {600, 1000, "600 MiB"}, {0, 100, "0 MiB"}, {8192, 600, "8 GiB"}, {-100, 8192, "-100 MiB"}} {
		if got := c.m.ExactBeside(c.other); got != c.want {
			t.Errorf("%d MiB beside %d is written %q, want %q", int64(c.m), int64(c.other), got, c.want)
		}
	}
}

func TestMiBString(t *testing.T) {
	for m, want := range map[MiB]string{0: "0 MiB", 1023: "1023 MiB", 1024: "1 GiB", 1536: "1.5 GiB", 1 << 20: "1 TiB", -2048: "-2 GiB"} {
		if got := m.String(); got != want {
			t.Errorf("%d MiB is written %q, want %q", int64(m), got, want)
		}
	}
	if got := MiBOf(1<<20 - 1); got != 0 {
		t.Errorf("a byte less than a MiB is %d MiB", got)
	}
}

// Absent, zero and null are three things on the way out, and two on the way in.
func TestOptOnTheWire(t *testing.T) {
	type wire struct {
		Fan   Opt[Percent] `json:"fan,omitzero"`
		Power Opt[Watts]   `json:"power"`
	}
	for text, want := range map[string]wire{
		`{"power":null}`:          {},
		`{"fan":0,"power":1.5}`:   {Fan: Some(Percent(0)), Power: Some(Watts(1.5))},
		`{"fan":30,"power":null}`: {Fan: Some(Percent(30))},
	} {
		var got wire
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v; want %+v", text, got, err, want)
		}
		if out, err := json.Marshal(want); err != nil || string(out) != text {
			t.Errorf("%+v is written %s, %v; want %s", want, out, err, text)
		}
	}
	var o Opt[int]
	if err := json.Unmarshal([]byte(`"x"`), &o); err == nil {
		t.Error("a word was read as a number")
	}
	if o.Known() {
		t.Error("after a failed reading there is a value")
	}
}

func TestThresholds(t *testing.T) {
	if err := DefaultThresholds().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	bad := DefaultThresholds()
	bad.TempNormal, bad.MemoryCritical = 60, 120
	err := bad.Validate()
	for _, want := range []string{"temp_normal", "temp_optimal (65)", "memory_critical", "100"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the complaint does not name %s: %v", want, err)
		}
	}
}

func TestStates(t *testing.T) {
	last := -1
	speed := 2.0
	for _, s := range States() {
		if s.Rank() <= last || s.Multiplier() > speed {
			t.Errorf("%s is out of order: rank %d after %d, multiplier %g after %g", s, s.Rank(), last, s.Multiplier(), speed)
		}
		last, speed = s.Rank(), s.Multiplier()
	}
	if !Critical.Worse(Normal) || Optimal.Worse(Optimal) || !State("?").Worse(Unavailable) {
		t.Error("Worse does not follow the order of states")
	}
}

func TestSampleMemoryPercent(t *testing.T) {
	s := Sample{MemoryTotal: Some(MiB(200)), MemoryUsed: Some(MiB(50))}
	if got := s.MemoryPercent(); got != Some(Percent(25)) {
		t.Errorf("50 of 200 is %v", got)
	}
	s.MemoryTotal = Opt[MiB]{}
	if s.MemoryPercent().Known() {
		t.Error("a share of an unknown whole is known")
	}
}

func TestLinkCloseness(t *testing.T) {
	last := 99
	for _, k := range []LinkKind{LinkNVLink, LinkSwitch, LinkBridge, LinkNode, LinkSystem} {
		if k.Closeness() >= last {
			t.Errorf("%s is not further than the one before", k)
		}
		last = k.Closeness()
	}
}

// An amount that ParseMiB takes is one that a device can have, and Exact writes
// it so that it is read back.
func FuzzParseMiB(f *testing.F) {
	for _, seed := range []string{"4GiB", "512M", "1.5g", "2048", " 1 t ", "0", "-1", "1e3", "0x10", "nan", "1_0", "1048577k", ".5G", "9999999999T", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMiB(text)
		if err != nil {
			return
		}
		if again, err := ParseMiB(m.Exact()); m <= 0 || m > 1<<30 || err != nil || again != m {
			t.Errorf("%q is %d MiB, and %q is %d, %v", text, m, m.Exact(), again, err)
		}
	})
}

func TestJoulesAsPeopleSayThem(t *testing.T) {
	for joules, want := range map[Joules]string{
		0: "0 J", 0.4: "0 J", 350: "350 J", 3599: "3599 J", 3600: "1 Wh", 5400: "1.5 Wh", 3.6e6: "1 kWh", 9e6: "2.5 kWh", 3.6e9: "1 MWh", -7200: "-2 Wh",
	} {
		if got := joules.String(); got != want {
			t.Errorf("%v joules are %q, want %q", float64(joules), got, want)
		}
	}
}
