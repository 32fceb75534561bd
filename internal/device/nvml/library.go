package nvml

import (
	"context"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// firstPause and longestPause bound the time from one restart to the next. A restart
// disturbs every device, so restarts become rare for a device that stays away.
const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// quietPause is how long a restart waits for calls to leave the library: the
// slowest healthy reading takes half of it.
const quietPause = 100 * time.Millisecond

// session is one initialisation of the library. Its findings and its handles are void in
// the next one. It does not change.
type session struct {
	api    nvml.Interface
	driver string

	confidential gpu.Confidence

	// These report NVML calls that an old driver may lack. Calling a missing one ends the
	// process.
	hasEventReasons, hasMIG, hasMPSProcesses, hasRemoteType, hasFans bool
}

// library is the only way into NVML. It counts the calls inside, and keeps all calls out
// while the library is initialised.
type library struct {
	api nvml.Interface

	mu         sync.Mutex    // guards the rest; never held while in the driver
	current    *session      // nil while not initialised
	turning    chan struct{} // not nil during initialisation; closed at its end
	inside     int           // number of calls in the driver
	quiet      chan struct{} // not nil while a caller waits for inside to be 0; closed then
	watchers   int           // number of calls that wait for events; they leave when asked
	evacuation chan struct{} // not nil while watchers are asked to leave; closed when they may come back
	pause      time.Duration // between the last restart and the next
	next       time.Time     // earliest time at which a restart is tried again
}

// enter lets a call into the library, and initialises it if needed. While
// another call initialises it, enter waits no longer than ctx.
func (l *library) enter(ctx context.Context) (*session, error) {
	return l.admit(ctx, &l.inside)
}

// enterWatch lets in a call that waits for events.
func (l *library) enterWatch(ctx context.Context) (*session, error) {
	return l.admit(ctx, &l.watchers)
}

// admit counts the caller in *who, which l.mu guards.
func (l *library) admit(ctx context.Context, who *int) (*session, error) {
	for {
		l.mu.Lock()
		switch {
		case l.turning != nil:
			turning := l.turning
			l.mu.Unlock()
			select {
			case <-turning:
			case <-ctx.Done():
				return nil, hung()
			}
		case l.current != nil:
			s := l.current
			*who++
			l.mu.Unlock()
			return s, nil
		default:
			l.turning = make(chan struct{})
			l.mu.Unlock()
			if err := l.initialise(); err != nil {
				return nil, err
			}
		}
	}
}

func (l *library) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	if l.inside == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// initialise initialises the library. The caller has set turning, and
// initialise clears it.
func (l *library) initialise() error {
	var s *session
	ret := l.api.Init()
	if ret == nvml.SUCCESS {
		s = l.explore()
	}
	l.mu.Lock()
	l.current = s
	close(l.turning)
	l.turning = nil
	l.mu.Unlock()
	if ret != nvml.SUCCESS {
		return failure("initialise NVML", ret)
	}
	return nil
}

func (l *library) explore() *session {
	has := func(symbol string) bool { return l.api.Extensions().LookupSymbol(symbol) == nil }
	driver, _ := l.api.SystemGetDriverVersion()
	return &session{
		api:             l.api,
		driver:          driver,
		confidential:    confidence(l.api, has("nvmlSystemGetConfComputeState")),
		hasEventReasons: has("nvmlDeviceGetCurrentClocksEventReasons"),
		hasMIG:          has("nvmlDeviceGetMigMode"),
		hasMPSProcesses: has("nvmlDeviceGetMPSComputeRunningProcesses_v3"),
		hasRemoteType:   has("nvmlDeviceGetNvLinkRemoteDeviceType"),
		hasFans:         has("nvmlDeviceSetFanSpeed_v2") && has("nvmlDeviceSetDefaultFanSpeed_v2") && has("nvmlDeviceGetMinMaxFanSpeed"),
	}
}

// confidence returns whether the GPUs of the machine are in confidential mode. The driver
// has one answer for all of them. Asks is whether the library can be asked.
func confidence(api nvml.Interface, asks bool) gpu.Confidence {
	if !asks {
		return ""
	}
	state, ret := api.SystemGetConfComputeState()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return gpu.NotConfidential
	case ret != nvml.SUCCESS:
		return ""
	case state.CcFeature != nvml.CC_SYSTEM_FEATURE_ENABLED:
		return gpu.NotConfidential
	case state.DevToolsMode == nvml.CC_SYSTEM_DEVTOOLS_MODE_ON:
		return gpu.ConfidentialOpen
	}
	return gpu.Confidential
}

// invalidate records that the library reports that it is not initialised, so that the
// next call to enter initialises it.
func (l *library) invalidate(s *session) {
	l.mu.Lock()
	if l.current == s {
		l.current = nil
	}
	l.mu.Unlock()
}

// restart shuts the library down and initialises it again, and reports whether it did. It
// does nothing while a call is inside: a hung call would return into a library that is
// gone. Watchers are inside nearly always, so restart asks them to leave, and the last
// one to leave restarts the library.
func (l *library) restart(ctx context.Context) bool {
	l.mu.Lock()
	if l.turning != nil || l.current == nil || time.Now().Before(l.next) {
		l.mu.Unlock()
		return false
	}
	if l.watchers > 0 {
		if l.evacuation == nil {
			l.evacuation = make(chan struct{})
		}
		l.mu.Unlock()
		return false
	}
	if l.inside > 0 {
		if l.quiet == nil {
			l.quiet = make(chan struct{})
		}
		quiet := l.quiet
		l.mu.Unlock()
		select {
		case <-quiet:
			return l.restart(ctx)
		case <-ctx.Done():
		case <-time.After(quietPause):
		}
		return false
	}
	l.postpone()
	l.current = nil
	l.turning = make(chan struct{})
	l.mu.Unlock()
	l.api.Shutdown()
	return l.initialise() == nil
}

// recovered records that a lost device answers again.
func (l *library) recovered() {
	l.mu.Lock()
	l.pause = 0
	l.mu.Unlock()
}

// unwelcome reports whether watchers should leave.
func (l *library) unwelcome() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evacuation != nil
}

// leaveWatch takes a watcher out. If watchers were asked to leave, it returns when the
// watcher may enter again: after the restart, or when there is none because another
// watcher did not leave.
func (l *library) leaveWatch(ctx context.Context) {
	l.mu.Lock()
	l.watchers--
	last, stays := l.watchers == 0, false
	evacuation := l.evacuation
	l.mu.Unlock()
	if evacuation == nil {
		return
	}
	if last && ctx.Err() == nil {
		l.restart(ctx)
	} else if !last {
		select {
		case <-evacuation:
		case <-ctx.Done():
		case <-time.After(patience):
			stays = true
		}
	}
	l.mu.Lock()
	if l.evacuation == evacuation {
		close(evacuation)
		l.evacuation = nil
		if stays { // another watcher hangs: the next try silences all of them for as long again
			l.postpone()
		}
	}
	l.mu.Unlock()
}

// postpone makes the next restart come later than the last one did. The caller holds mu.
func (l *library) postpone() {
	l.pause = min(max(2*l.pause, firstPause), longestPause)
	l.next = time.Now().Add(l.pause)
}

// close shuts the library down, unless a call is still inside.
func (l *library) close() error {
	l.mu.Lock()
	busy := l.turning != nil || l.inside+l.watchers > 0
	s := l.current
	if !busy {
		l.current = nil
	}
	l.mu.Unlock()
	switch {
	case busy:
		return &device.Error{Op: "close NVML while a call is in it", Err: device.ErrHung,
			Hint: "the call ends with the process"}
	case s == nil:
		return nil
	}
	if ret := l.api.Shutdown(); ret != nvml.SUCCESS {
		return failure("close NVML", ret)
	}
	return nil
}
