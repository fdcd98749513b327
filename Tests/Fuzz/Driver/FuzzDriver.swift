import FuzzHeads
import Glibc
import LanyardRequestPath

/// libFuzzer's main loop: its library has no header, so the function is declared here.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ argumentCount: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ head: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// Hands libFuzzer's inputs to the head that the command line names.
enum FuzzDriver {
    /// Set before the first input; there is one thread.
    private nonisolated(unsafe) static var target: (any FuzzTarget)?

    static func run() -> Never {
        let name = CommandLine.arguments.lazy.compactMap { argument in
            argument.hasPrefix("--head=") ? String(argument.dropFirst("--head=".utf8.count)) : nil
        }.first
        guard let head = name.flatMap(FuzzHead.init(rawValue:)) else {
            print("usage: lanyard-fuzz --head=NAME [libFuzzer's arguments]; NAME is one of:")
            for head in FuzzHead.allCases { print(head.rawValue) }
            exit(64)
        }
        target = head.target()
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        exit(runDriver(&count, &arguments) { bytes, count in FuzzDriver.feed(bytes, count) })
    }

    private static func feed(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
        // libFuzzer's empty input has no address.
        let input = Bytes(start: bytes ?? UnsafePointer(bitPattern: 1), count: count)
        do throws(BrokenPromise) {
            try target?.check(input)
        } catch {
            fatalError("broken promise: \(error)")
        }
        return 0
    }
}
