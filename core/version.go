package core

// Version is that of the library; a test keeps it equal to the header's.
const Version = "0.1.0"
