/// How many bytes one read of a body asks for.
///
/// Each read and each write of TCP makes the kernel process what it has for the other side and wakes it, which costs more than to copy
/// the bytes. So a large body costs a third less CPU with reads of 255 KiB than with reads of 64 KiB.
enum ReadSize {
    /// Where what comes is not known to be large.
    static let standard = 64 << 10
    /// Over loopback a segment has 65,483 bytes at most, and a socket with `Socket.limitUnsent` takes four in one write. This leaves 812
    /// bytes for a head or a chunk's framing: a write that is a little longer leaves a rest in the queue each time.
    static let large = 255 << 10
    /// Where the other side takes little. With a chunk's framing the read fits into 8 KiB.
    static let small = 8_000
}
