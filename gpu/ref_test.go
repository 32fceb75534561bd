package gpu

import (
	"encoding/json"
	"testing"
)

func TestRefFromJSON(t *testing.T) {
	for text, want := range map[string]Ref{`0`: "0", `"0"`: "0", `7`: "7", `"GPU-1"`: "GPU-1", `""`: "", `null`: ""} {
		var got struct{ GPU Ref }
		if err := json.Unmarshal([]byte(`{"gpu": `+text+`}`), &got); err != nil || got.GPU != want {
			t.Errorf("%s is %q, %v; want %q", text, got.GPU, err, want)
		}
	}
	for _, text := range []string{`-1`, `0.5`, `1e3`, `true`, `[0]`, `{}`, `99999999999`} {
		var got struct{ GPU Ref }
		if err := json.Unmarshal([]byte(`{"gpu": `+text+`}`), &got); err == nil {
			t.Errorf("%s is taken for %q", text, got.GPU)
		}
	}
	if text, err := json.Marshal(Ref("0")); err != nil || string(text) != `"0"` {
		t.Errorf("written as %s, %v", text, err)
	}
}
