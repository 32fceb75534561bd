package sim

import (
	"bytes"
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/gpu"
)

// modelsYAML holds the GPUs that can be simulated, as data.
//
//go:embed models.yaml
var modelsYAML []byte

// catalog is the content of models.yaml.
type catalog struct {
	Models   []*model  `yaml:"models"`
	Machines []machine `yaml:"machines"`
}

// machine is a name for a number of GPUs of one model.
type machine struct {
	Name  string `yaml:"name"`
	Model string `yaml:"model"`
	Count int    `yaml:"count"`
}

// model is one kind of GPU.
type model struct {
	Name              string  `yaml:"name"`
	Title             string  `yaml:"title"`
	Memory            gpu.MiB `yaml:"memory_mb"`
	DriverMemory      gpu.MiB `yaml:"driver_memory_mb"` // in use without any process
	ComputeCapability string  `yaml:"compute_capability"`
	ECC               bool    `yaml:"ecc"`
	Link              struct {
		Kind  gpu.LinkKind `yaml:"kind"`
		Lanes int          `yaml:"lanes"`
	} `yaml:"link"` // to another GPU of the same model on the same board
	Park struct {
		Out  float64 `yaml:"out"`  // GiB per second, to the memory of the machine
		Back float64 `yaml:"back"` // GiB per second
	} `yaml:"park"`
	Power  powerModel `yaml:"power"`
	Clocks struct {
		SM         gpu.MHz `yaml:"sm"`
		SMIdle     gpu.MHz `yaml:"sm_idle"`
		Memory     gpu.MHz `yaml:"memory"`
		MemoryIdle gpu.MHz `yaml:"memory_idle"`
	} `yaml:"clocks"`
	MemoryBusy float64 `yaml:"memory_busy"` // at full load
	Limits     struct {
		Max      gpu.Celsius `yaml:"max"`
		Slowdown gpu.Celsius `yaml:"slowdown"`
		Shutdown gpu.Celsius `yaml:"shutdown"`
	} `yaml:"limits"`
	Ambient      float64   `yaml:"ambient"` // of the air that cools it
	Die          []mode    `yaml:"die"`
	MemoryOffset float64   `yaml:"memory_offset"` // above ambient, at any power
	MemoryModes  []mode    `yaml:"memory"`        // empty if it has no sensor there
	Fan          *fanModel `yaml:"fan"`           // nil if it has no fan of its own
}

// fanModel is a fan that stands still below start and then runs from floor to 100
// percent, which it reaches at full.
type fanModel struct {
	Start float64 `yaml:"start"`
	Floor float64 `yaml:"floor"`
	Full  float64 `yaml:"full"`
}

// speed returns the speed in percent.
func (f *fanModel) speed(celsius float64) float64 {
	if celsius < f.Start {
		return 0
	}
	return min(100, f.Floor+(100-f.Floor)*(celsius-f.Start)/(f.Full-f.Start))
}

func readCatalog() (*catalog, error) {
	c := new(catalog)
	dec := yaml.NewDecoder(bytes.NewReader(modelsYAML))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("read the built-in models: %w", err)
	}
	return c, nil
}

// model returns the model with a name, or nil.
func (c *catalog) model(name string) *model {
	for _, m := range c.Models {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// expand returns the models that a name stands for, or none if the name is unknown.
func (c *catalog) expand(name string) []*model {
	if m := c.model(name); m != nil {
		return []*model{m}
	}
	for _, machine := range c.Machines {
		if machine.Name == name {
			models := make([]*model, machine.Count)
			for i := range models {
				models[i] = c.model(machine.Model)
			}
			return models
		}
	}
	return nil
}

// names returns every name that a spec can use.
func (c *catalog) names() []string {
	var names []string
	for _, m := range c.Models {
		names = append(names, m.Name)
	}
	for _, m := range c.Machines {
		names = append(names, m.Name)
	}
	return names
}
