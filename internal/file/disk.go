package file

import "sync/atomic"

// disk stands between the folders of the operating system and those who use them; nil means
// nothing does.
var disk atomic.Pointer[func(path string, real Folder) Folder]

// Simulate has every folder that is made from now on pass through a function: a test plays a
// disk there that fails, fills up or loses power. It may leave a folder as it is.
func Simulate(through func(path string, real Folder) Folder) { disk.Store(&through) }

// real returns a folder of the operating system.
func real(d dir) Folder {
	if through := disk.Load(); through != nil {
		return (*through)(d.folder, d)
	}
	return d
}
