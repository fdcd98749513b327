import Glibc
import TestSupport

/// One end of a loopback TCP connection as the kernel shows it, of any process.
struct KernelSocket {
    /// Bytes that the program has not read.
    let receiveQueue: Int
    /// Bytes that the other side's kernel has not acknowledged.
    let sendQueue: Int
    /// Some process holds it; what the kernel itself brings to an end belongs to none.
    let isOwned: Bool
    /// Seconds until the kernel probes the other side; nil: no such timer runs.
    let secondsToProbe: Double?

    /// The end with these two ports, without a remote one the listener; nil if there is none.
    static func find(local: UInt16, remote: UInt16?) throws -> KernelSocket? {
        guard let table = fopen("/proc/net/tcp", "re") else { throw TestFailure("/proc/net/tcp: errno \(errno)") }
        defer { fclose(table) }
        let ends = "\(address(local)) \(remote.map(address) ?? "00000000:0000") "
        var line: UnsafeMutablePointer<CChar>?
        var room = 0
        defer { free(line) }
        // Thousands of lines, so that the search is C's.
        while getline(&line, &room, table) > 0, let text = line {
            guard strstr(text, ends) != nil else { continue }
            let words = String(cString: text).split(separator: " ")
            guard words.count > 9 else { continue }
            let queues = words[4].split(separator: ":").map { Int($0, radix: 16) ?? 0 }
            // The kind of the timer, 2 for probes, and its time in hundredths of a second.
            let timer = words[5].split(separator: ":")
            return KernelSocket(
                receiveQueue: queues[1], sendQueue: queues[0], isOwned: words[9] != "0",
                secondsToProbe: timer[0] == "02" ? Int(timer[1], radix: 16).map { Double($0) / 100 } : nil)
        }
        return nil
    }

    private static func address(_ port: UInt16) -> String {
        let digits = String(port, radix: 16, uppercase: true)
        return "0100007F:" + String(repeating: "0", count: 4 - digits.count) + digits
    }
}
