import CLinux
import Glibc

/// Descriptors in reserve. Clients of the request path may use up all others; a listener with a reserve still accepts.
///
/// Belongs to its listener, which checks the loop. With `countMax` 0 it accepts and closes without a reserve.
package struct DescriptorReserve: ~Copyable {
    private let countMax: Int
    private var spares: [CInt] = []

    /// Empty until `refill`.
    package init(countMax: Int) { self.countMax = countMax }

    deinit { for spare in spares { close(spare) } }

    /// Accepts a connection. If no descriptor is left it releases one of the reserve, and no other thread can take that one.
    ///
    /// - Returns: what accept(2) returns; `errno` is its own.
    package mutating func accept(on socket: CInt) -> CInt {
        var raw = lanyard_accept(socket, nil, nil)
        while raw < 0, errno == EMFILE || errno == ENFILE, let spare = spares.popLast() {
            DescriptorShortage.shared.recordShortage()
            DescriptorShortage.shared.exchange {
                close(spare)
                raw = lanyard_accept(socket, nil, nil)
                // Without a free descriptor accept(2) fails even if no connection waits. Then the spare is put back.
                let code = errno
                if raw < 0 { refill() }
                errno = code
            }
        }
        return raw
    }

    /// Calls `release`, which closes a descriptor, and refills the reserve with it.
    package mutating func refill(after release: () -> Void) {
        guard countMax > 0 else { return release() }
        DescriptorShortage.shared.exchange {
            release()
            refill()
        }
    }

    /// Opens descriptors up to `countMax`, as far as there are any.
    package mutating func refill() {
        while spares.count < countMax {
            let spare = eventfd(0, CInt(EFD_CLOEXEC))
            guard spare >= 0 else { return }
            spares.append(spare)
        }
    }
}
