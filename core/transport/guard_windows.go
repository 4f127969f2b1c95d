package transport

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// guard has each server created inside a job object of its own, which only this process
// has a handle of: the kernel ends all that is in a job with its last handle, however and
// whenever the host comes to its end. os/exec could only put a running process into a
// job, or a suspended one that stays for ever when the host is killed before it resumes it.
var guard = guardian{jobs: map[int]windows.Handle{}}

type guardian struct {
	mu   sync.Mutex
	jobs map[int]windows.Handle // by the server's process id
}

func (*guardian) enter() error { return nil }

// launch is cmd.Start, into a job. Where no job may be made, as inside an old sandbox,
// the server runs without. The second parameter is for guards of other systems.
func (g *guardian) launch(cmd *exec.Cmd, _ *os.File) error {
	job, err := newJob()
	if err != nil {
		return cmd.Start()
	}
	process, err := create(cmd, job)
	if err != nil {
		windows.CloseHandle(job)
		if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
			return cmd.Start() // it tells a file that may not be run from a job that may not be used
		}
		return err
	}
	cmd.Process = process
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jobs[process.Pid] = job
	return nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func (g *guardian) leave(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if job, ok := g.jobs[pid]; ok {
		delete(g.jobs, pid)
		windows.CloseHandle(job)
	}
}

// end terminates all that is in a server's job; false: it has none.
func (g *guardian) end(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	job, ok := g.jobs[pid]
	return ok && windows.TerminateJobObject(job, 1) == nil
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	times                                    [4]int64
	faults, total, active, terminatedByLimit uint32
}

// alive tells whether something still runs in a server's job.
func (g *guardian) alive(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	job, ok := g.jobs[pid]
	if !ok {
		return false
	}
	var a accounting
	err := windows.QueryInformationJobObject(job, windows.JobObjectBasicAccountingInformation, uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil)
	return err == nil && a.active > 0
}
