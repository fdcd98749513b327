import ArgumentParser
import CLanyard.Linux
import Dispatch
import Foundation

/// The program's entry: it is synchronous, because an asynchronous one has threads and descriptors before its first line.
@main
enum EmulatorProgram {
    static func main() {
        // The next file or socket would become a standard descriptor that is closed.
        guard lanyard_open_standard_descriptors() == 0 else { exit(1) }
        Task { await EmulatorCommand.main() }
        dispatchMain()
    }
}
