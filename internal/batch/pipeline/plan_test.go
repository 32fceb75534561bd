package pipeline

import (
	"encoding/json"
	"testing"
)

func TestPlans(t *testing.T) {
	for _, s := range scenarios(t, "plans") {
		t.Run(s.name(), func(t *testing.T) {
			name, text := s.file()
			file, err := Parse(name, text)
			if err != nil {
				t.Fatal(err)
			}
			world, _ := s.world(t)
			plan, err := Compile(file, world)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.MarshalIndent(plan, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			for part, got := range map[string]string{
				"table": Table(plan, Width), "mermaid": Mermaid(plan), "dot": DOT(plan), "json": string(data) + "\n",
			} {
				if _, asked := s.part(part); asked {
					s.expect(t, part, got)
				}
			}
		})
	}
}
