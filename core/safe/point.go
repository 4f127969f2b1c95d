//go:build !mcprt_points

package safe

// Point is a place where a test may inject a bug. In a library that is built without
// the tag mcprt_points it is nothing at all: the compiler removes the call.
func Point(string) {}
