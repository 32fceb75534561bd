package check

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/berth-gpu/berth/internal/device/proof"
)

// What the helper process writes is what the daemon reads.
func TestLine(t *testing.T) {
	s := proof.Copy(proof.StepCopyIn, 54.5, proof.Link{MostGeneration: 4, MostWidth: 16}, proof.Wrong{})
	s.Took = 0.5
	for _, line := range []Line{{Opened: true}, {Step: &s}, {Step: &proof.Step{Name: proof.StepMemory, Done: 12}}, {Unable: "no driver"}, {Done: true}} {
		text, err := json.Marshal(line)
		if err != nil || len(text) > mostLine {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		var back Line
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, line) {
			t.Errorf("%s: %+v, %v", text, back, err)
		}
	}
}
