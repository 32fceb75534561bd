package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// libraries checks that every library of a pipeline can be imported. Which GPUs a library
// sees is checked by candidates.
func (c *compiler) libraries(p *Pipeline, planned *api.PlannedPipeline) {
	if c.world.ProbeError != "" || c.world.Libraries == nil {
		return // reported once, for the whole file
	}
	var unasked []string
	for _, need := range needsOf(p) {
		library, asked := c.world.Libraries[need.library]
		switch {
		case !asked:
			unasked = append(unasked, need.library)
		case library.Status == api.LibraryMissing:
			c.add(p.at(need.steps[0]), MissingLibrary,
				fmt.Sprintf("%s is not installed for %s%s", need.library, c.interpreter(), need.others()),
				"install it: ", c.install(need.library))
		case library.Status == api.LibraryBroken:
			c.add(p.at(need.steps[0]), BrokenLibrary,
				fmt.Sprintf("%s is installed for %s, but cannot be imported%s: %s", need.library, c.interpreter(), need.others(), library.Reason),
				"try it by hand with ", c.interpreter(), ` -c "import `, need.library, `", or install it again: `, c.install(need.library))
		}
	}
	if len(unasked) > 0 {
		note(planned, "nobody checked whether the interpreter has %s", listed(unasked))
	}
}

// settled fills in what the interpreter left out: a library without a status is broken if
// it has an error, and otherwise importable. It returns nil for nil, which means that
// nobody asked, and differs from empty.
func settled(said map[string]api.Library) map[string]api.Library {
	if said == nil {
		return nil
	}
	all := make(map[string]api.Library, len(said))
	for name, l := range said {
		l.Reason = cmp.Or(l.Reason, l.Error)
		if l.Status == "" {
			l.Status = api.LibraryOK
			if l.Error != "" {
				l.Status = api.LibraryBroken
			}
		}
		all[name] = l
	}
	return all
}

// need is a library with the steps of a pipeline that need it.
type need struct {
	library string
	steps   []*Step
	onGPU   bool // whether it keeps arrays on the GPU for at least one of them
}

// others names the steps other than the first.
func (n *need) others() string {
	if len(n.steps) == 1 {
		return ""
	}
	var names []string
	for _, step := range n.steps[1:] {
		names = append(names, fmt.Sprintf("%q", step.Name))
	}
	return " (needed by " + listed(names) + " too)"
}

func needsOf(p *Pipeline) []need {
	var all []need
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, library := range s.needs() {
			at := slices.IndexFunc(all, func(n need) bool { return n.library == library })
			if at < 0 {
				at = len(all)
				all = append(all, need{library: library})
			}
			all[at].steps = append(all[at].steps, s)
			all[at].onGPU = all[at].onGPU || s.UsesGPU() && gpuLibrary(library)
		}
	}
	return all
}

// sight is a library that a pipeline uses on the GPU, with the GPUs it sees.
type sight struct {
	need
	api.Library
}

// sights returns the libraries whose GPUs are known. It notes those whose GPUs are not
// known, which stops nothing.
func (c *compiler) sights(p *Pipeline, planned *api.PlannedPipeline) []sight {
	var all []sight
	for _, n := range needsOf(p) {
		library, asked := c.world.Libraries[n.library]
		switch {
		case !n.onGPU || !asked || library.Status != api.LibraryOK:
		case library.DevicesUnknown != "":
			note(planned, "it is not known which GPUs %s sees: %s", n.library, library.DevicesUnknown)
		default:
			all = append(all, sight{n, library})
		}
	}
	return all
}

// sees reports whether the library can use a device. No library sees a simulated device,
// which is there to try things out, so any may use it.
func (s *sight) sees(d *Device) bool {
	return d.Vendor == gpu.Simulated || slices.ContainsFunc(s.Devices, func(v api.VisibleGPU) bool { return same(v, d) })
}

// label returns the library with its version.
func (s *sight) label() string { return strings.TrimSpace(s.library + " " + s.Version) }

// blind reports a library that sees none of the devices it could use.
func (c *compiler) blind(p *Pipeline, s *sight, devices []int) {
	if len(s.Devices) == 0 {
		reason := s.label() + " sees no GPU" + s.others()
		if s.Reason != "" {
			reason += ": " + s.Reason
		}
		c.add(p.at(s.steps[0]), LibrarySeesNoGPU, reason,
			"check CUDA_VISIBLE_DEVICES, or install a build for GPUs: ", c.install(s.library))
		return
	}
	var wanted, seen []string
	for _, i := range devices {
		wanted = append(wanted, c.devices[i].label())
	}
	for i := range c.devices {
		if s.sees(&c.devices[i]) {
			seen = append(seen, c.devices[i].label())
		}
	}
	if len(seen) == 0 {
		seen = []string{words.Count(len(s.Devices), "GPU") + " that berth does not know"}
	}
	c.add(p.at(s.steps[0]), LibrarySeesNoGPU,
		fmt.Sprintf("%s does not see %s%s; it sees %s", s.label(), listed(wanted), s.others(), listed(seen)),
		"check CUDA_VISIBLE_DEVICES, or ask for a GPU that it sees")
}

// packages maps a library to the package that installs it, if that has another name than
// the import or is a special build that uses GPUs.
var packages = map[string]string{
	"cupy":       "cupy-cuda12x",
	"jax":        `"jax[cuda12]"`,
	"tensorflow": `"tensorflow[and-cuda]"`,
	"cv2":        "opencv-python",
	"PIL":        "pillow",
	"skimage":    "scikit-image",
	"sklearn":    "scikit-learn",
	"yaml":       "pyyaml",
	"cucim":      "cucim-cu12",
	"cuml":       "cuml-cu12",
	"cudf":       "cudf-cu12",
}

// install returns the command that installs a library.
func (c *compiler) install(library string) string {
	top, _, _ := strings.Cut(library, ".")
	name, known := packages[top]
	if !known {
		name = top
	}
	return c.interpreter() + " -m pip install " + name + installNote(name)
}

// installNote returns what the right package depends on.
func installNote(name string) string {
	if newer := strings.NewReplacer("cuda12", "cuda13", "-cu12", "-cu13").Replace(name); newer != name {
		return " (" + newer + " for CUDA 13)"
	}
	return ""
}
