import ArgumentParser
import CLinux
import Dispatch
import Foundation

/// The program's entry point. It is synchronous, because an asynchronous one has threads and descriptors before its first line.
@main
enum EmulatorProgram {
    static func main() {
        // Otherwise the next file or socket could take the number of a closed standard descriptor.
        guard lanyard_open_standard_descriptors() == 0 else { exit(1) }
        Task {
            await EmulatorCommand.main()
            exit(0)
        }
        dispatchMain()
    }
}
