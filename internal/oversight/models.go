package oversight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/berth-gpu/berth/internal/heat"
	"github.com/berth-gpu/berth/internal/wholefile"
)

// modelsVersion is the version of the file of models.
const modelsVersion = 1

// models is the content of the file: by UUID, how the temperature of a device
// follows its power.
type models struct {
	Version int                   `json:"version"`
	Models  map[string]heat.Model `json:"models"`
}

// ReadModels reads what is known about how the temperature of devices follows
// their power, by UUID. It renames a file that it cannot understand: minutes of
// learning are not worth refusing to start. The note says so; it is empty if all
// is well.
func ReadModels(path string) (known map[string]heat.Model, note string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read how temperatures follow power: %w", err)
	}
	var m models
	err = json.Unmarshal(text, &m)
	if err == nil && m.Version != modelsVersion {
		err = fmt.Errorf("it has version %d, and this berth knows version %d", m.Version, modelsVersion)
	}
	if err != nil {
		aside := path + ".unreadable"
		return nil, fmt.Sprintf("How temperatures follow power could not be read and is now in %s: %v. berth learns it again.", aside, err), os.Rename(path, aside)
	}
	return m.Models, "", nil
}

// modelsPeriod is how often KeepModels writes. A daemon that is killed loses what
// was learned since.
const modelsPeriod = 10 * time.Minute

// KeepModels writes what is known to path from time to time, and once more when
// ctx ends. It gives up on nothing: the next time may work.
func KeepModels(ctx context.Context, path string, known func() map[string]heat.Model) {
	tick := time.NewTicker(modelsPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if text, err := json.Marshal(models{Version: modelsVersion, Models: known()}); err == nil {
			_ = wholefile.WriteUnsynced(path, text) // what cannot be kept costs minutes of learning
		}
	}
}
