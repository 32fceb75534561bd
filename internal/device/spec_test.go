package device_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
)

// The configuration is below this package and says the same by itself.
func TestTheConfigurationNamesTheSpecs(t *testing.T) {
	field, _ := reflect.TypeFor[config.Daemon]().FieldByName("Devices")
	doc := field.Tag.Get("doc")
	for _, spec := range append(device.SpecExamples(), device.Specs()...) {
		if !strings.Contains(doc, spec) && spec != "sim:MODEL" {
			t.Errorf("daemon.devices does not name %s: %s", spec, doc)
		}
	}
}
