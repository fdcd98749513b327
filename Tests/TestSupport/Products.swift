import Foundation
import Glibc

/// Where the built binaries are.
package enum Products {
    /// The package's root folder.
    package static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    /// A product: in the folder that `LANYARD_TEST_PRODUCTS` names (the system tests drive release builds so, too), else beside the
    /// running test binary, which also finds `.build-tsan` and other scratch folders.
    ///
    /// - Throws: `TestFailure` when it has not been built.
    package static func path(_ name: String) throws -> String {
        if let chosen = getenv("LANYARD_TEST_PRODUCTS").map({ String(cString: $0) }), !chosen.isEmpty {
            let folder = chosen.hasPrefix("/") ? chosen : root + "/" + chosen
            guard access(folder + "/" + name, X_OK) == 0 else { throw TestFailure("\(name) is not built in \(folder)") }
            return folder + "/" + name
        }
        let folders = [ownFolder, root + "/.build/debug", root + "/.build/release"]
        for folder in folders where access(folder + "/" + name, X_OK) == 0 { return folder + "/" + name }
        throw TestFailure("\(name) is not built; looked in \(folders)")
    }

    /// A library that was built together with the tests, whichever build of the programs they drive.
    ///
    /// - Throws: `TestFailure` when it has not been built.
    package static func library(_ name: String) throws -> String {
        let folders = [ownFolder, root + "/.build/debug", root + "/.build/release"]
        for folder in folders where access(folder + "/" + name, R_OK) == 0 { return folder + "/" + name }
        throw TestFailure("\(name) is not built; looked in \(folders)")
    }

    /// The folder of the running test binary.
    private static var ownFolder: String {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let length = buffer.withUnsafeMutableBytes {
            readlink("/proc/self/exe", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        let own = String(decoding: buffer.prefix(max(length, 0)), as: UTF8.self)
        return (own as NSString).deletingLastPathComponent
    }

    /// A product of the release build; nil when that has not been built.
    package static func release(_ name: String) -> String? {
        let path = root + "/.build/release/" + name
        return access(path, X_OK) == 0 ? path : nil
    }
}
