import CLinux
import Glibc

extension OwnedDescriptor {
    /// A descriptor that the kernel was asked for.
    ///
    /// - Throws: the machine's `.system(errno)`, if `raw` is negative.
    init(made raw: CInt, _ doing: String) throws(SystemError) {
        guard raw >= 0 else { throw SystemError(.machine, .system(errno), doing) }
        self.init(taking: raw)
    }

    /// A timer that also counts the time in which the machine is suspended.
    ///
    /// - Throws: the machine's `.system(errno)`: the process or the machine has no descriptor or no memory left.
    static func timer() throws(SystemError) -> OwnedDescriptor {
        let flags = CInt(TFD_CLOEXEC) | CInt(TFD_NONBLOCK)
        return try OwnedDescriptor(made: timerfd_create(CLOCK_BOOTTIME, flags), "creating a timerfd")
    }
}

extension EventLoop.Watch {
    /// What epoll carries for this registration.
    var data: UInt64 { UInt64(generation) << 32 | UInt64(slot) }

    /// The same registration: a slot of another generation is another one.
    public static func == (left: Self, right: Self) -> Bool {
        left.slot == right.slot && left.generation == right.generation
    }
}
