import Foundation
import Glibc

/// The paths of the built binaries.
package enum Products {
    /// The package's root folder.
    package static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    /// The path of a product, in the folder that `LANYARD_TEST_PRODUCTS` names, else beside the running test binary.
    ///
    /// With the variable the system tests use release builds. The folder of the test binary covers `.build-tsan` and other scratch folders.
    ///
    /// - Throws: `TestFailure` if it has not been built.
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

    /// The path of a library that was built with the tests, independent of the build of the tested programs.
    ///
    /// With the variable the system tests use release builds. The folder of the test binary covers `.build-tsan` and other scratch folders.
    ///
    /// - Throws: `TestFailure` if it has not been built.
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

    /// The path of a product of the release build; nil: it has not been built.
    package static func release(_ name: String) -> String? {
        let path = root + "/.build/release/" + name
        return access(path, X_OK) == 0 ? path : nil
    }
}
