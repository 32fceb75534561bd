package oversight

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/heat"
)

// models is the content of the file. Models holds, by UUID, how the temperature of a
// device follows its power.
type models struct {
	Models map[string]heat.Model `json:"models"`
}

func modelsFile(path string) *file.State[models] {
	return file.NewState[models](path, file.StateOptions{
		What: "how temperatures follow power", Version: 1, Lost: "How temperatures follow power is lost, and berth learns it again.",
	})
}

// ReadModels reads how the temperatures of devices follow their power, by UUID. It sets a
// damaged file aside: a few minutes of learning are no reason not to start.
func ReadModels(path string) (known map[string]heat.Model, damage *file.Damage) {
	damage = modelsFile(path).Load(func(m models) error {
		known = m.Models
		return nil
	})
	return known, damage
}

// modelsPeriod is how often KeepModels writes. A daemon that is killed loses what it
// learned since.
const modelsPeriod = 10 * time.Minute

// KeepModels writes the models to path from time to time, and once more when ctx ends.
func KeepModels(ctx context.Context, path string, known func() map[string]heat.Model) {
	to := modelsFile(path)
	to.Change(modelsPeriod)
	_ = to.Run(ctx, func() error { // a failure costs minutes of learning
		to.Change(modelsPeriod)
		return to.SaveUnsynced(models{known()})
	}, nil)
}
