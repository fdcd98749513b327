import CLinux

/// The command line of this process.
package enum ProcessArguments {
    /// The arguments after the program's name. Bytes that are not UTF-8 are replaced.
    ///
    /// They come from the C library. `CommandLine` reads /proc/self/cmdline and has no arguments where /proc is not mounted: in a chroot,
    /// or below `RootDirectory=` of systemd. A program would then run without what it was asked for.
    package static var all: [String] {
        stride(from: 1, to: lanyard_argument_count(), by: 1).map { String(cString: lanyard_argument($0)) }
    }
}
