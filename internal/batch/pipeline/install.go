package pipeline

import "strings"

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
