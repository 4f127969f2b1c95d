package transport

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// guard puts each server into a job object of its own, which only this process has
// a handle of: the kernel ends all that is in a job with its last handle, however the
// host came to its end. Servers are created suspended, so that nothing which they
// start is outside the job.
var guard = guardian{jobs: map[int]windows.Handle{}}

type guardian struct {
	mu   sync.Mutex
	jobs map[int]windows.Handle // by the server's process id
}

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

func (*guardian) enter() error          { return nil }
func (*guardian) birth(*os.File) string { return "" }
func (*guardian) born(string)           {}

// add takes a suspended server into a job and lets it run. One that no job takes, as
// inside an old sandbox, runs without.
func (g *guardian) add(pid int) {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME, false, uint32(pid))
	if err != nil {
		return // it cannot be resumed either; its start ends by its time
	}
	defer windows.CloseHandle(process)
	defer resumeProcess.Call(uintptr(process))
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err == nil {
		err = windows.AssignProcessToJobObject(job, process)
	}
	if err != nil {
		windows.CloseHandle(job)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jobs[pid] = job
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
