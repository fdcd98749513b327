import CLanyard.Linux
import Glibc

/// Descriptors kept back: clients of the request path may use up all others, and whoever has a reserve still accepts.
///
/// Belongs to its listener's loop. A reserve of none accepts and closes as anybody does.
struct DescriptorReserve: ~Copyable {
    private let countMax: Int
    private var spares: [CInt] = []

    /// Empty until `refill`.
    init(countMax: Int) { self.countMax = countMax }

    deinit { for spare in spares { close(spare) } }

    /// Accepts a connection, if need be with a descriptor of the reserve, which nobody else gets at that moment.
    ///
    /// - Returns: what accept(2) returns; `errno` is its own.
    mutating func accept(on socket: CInt) -> CInt {
        var raw = lanyard_accept(socket, nil, nil)
        while raw < 0, errno == EMFILE || errno == ENFILE, let spare = spares.popLast() {
            DescriptorShortage.shared.recordShortage()
            DescriptorShortage.shared.exchange {
                close(spare)
                raw = lanyard_accept(socket, nil, nil)
                // Without a descriptor accept(2) fails before it looks whether somebody waits: if nobody does, the spare is still needed.
                let code = errno
                if raw < 0 { refill() }
                errno = code
            }
        }
        return raw
    }

    /// Has `release` close a descriptor, and takes it back into the reserve if that has given one up.
    mutating func takeBack(_ release: () -> Void) {
        guard countMax > 0 else { return release() }
        DescriptorShortage.shared.exchange {
            release()
            refill()
        }
    }

    mutating func refill() {
        while spares.count < countMax {
            let spare = eventfd(0, CInt(EFD_CLOEXEC))
            guard spare >= 0 else { return }
            spares.append(spare)
        }
    }
}
