package claim

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

// The examples that come with berth have parameters that the driver takes.
func TestExamples(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../../examples/kubernetes", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			if !bytes.Contains(document, []byte("\nkind: ResourceClaimTemplate\n")) {
				continue
			}
			var template resourcev1.ResourceClaimTemplate
			if err := yaml.UnmarshalStrict(document, &template); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for _, c := range template.Spec.Spec.Devices.Config {
				if c.Opaque == nil {
					t.Errorf("%s: %s has a configuration without parameters", path, template.Name)
					continue
				}
				found++
				read, err := Read(configured(whole(), false, string(c.Opaque.Parameters.Raw), c.Requests...), node)
				if err != nil || read.Parameters.equal(Parameters{}) {
					t.Errorf("%s: the driver reads %+v from %s: %v", path, read.Parameters, c.Opaque.Parameters.Raw, err)
				}
			}
		}
		return nil
	})
	if err != nil || found < 3 {
		t.Errorf("found %d sets of parameters: %v", found, err)
	}
}
