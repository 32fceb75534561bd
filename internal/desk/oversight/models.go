package oversight

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/heat"
)

// modelsVersion is the version of the file format.
const modelsVersion = 1

// models is the content of the file. Models holds, by UUID, how the temperature of a
// device follows its power.
type models struct {
	Version int                   `json:"version"`
	Models  map[string]heat.Model `json:"models"`
}

// ReadModels reads how the temperatures of devices follow their power, by UUID. It sets a
// damaged file aside: a few minutes of learning are no reason not to start.
func ReadModels(path string) (known map[string]heat.Model, damage *file.Damage) {
	damage = file.Load(path, "How temperatures follow power is lost, and berth learns it again.", func(text []byte) error {
		var m models
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if m.Version != modelsVersion {
			return fmt.Errorf("it has version %d, and this berth knows version %d", m.Version, modelsVersion)
		}
		known = m.Models
		return nil
	})
	return known, damage
}

// modelsPeriod is how often KeepModels writes. A daemon that is killed loses what it
// learned since.
const modelsPeriod = 10 * time.Minute

// KeepModels writes the models to path from time to time, and once more when ctx ends.
// After a failure it tries again the next time.
func KeepModels(ctx context.Context, path string, known func() map[string]heat.Model) {
	tick := time.NewTicker(modelsPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if text, err := json.Marshal(models{Version: modelsVersion, Models: known()}); err == nil {
			_ = file.ReplaceUnsynced(path, text) // a failure costs minutes of learning
		}
	}
}
