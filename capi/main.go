// Command capi is the shared library: built with -buildmode=c-shared it exports
// the functions of include/mcprt.h and nothing else.
//
// It is the only package of the project with cgo, and has no policy. The header's
// functions are plain C (api.c and beside it): they check arguments, keep the
// handles and both queues, and so answer a host without entering Go. Go enters
// the picture in export.go (two functions that C calls) and in host.go (the
// manager of core behind one handle).
package main

func main() {}
