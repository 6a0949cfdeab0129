#pragma once

#include <fmt/core.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace driftgate::net::test {

/// A folder with certificates that openssl made for this test, NAME.pem and NAME.key: a CA ("ca") that
/// vouches for a server on loopback ("server"), one whose time is over ("expired"), one for another host
/// ("elsewhere") and a client ("client"); and a stranger's ("stranger").
class Certificates {
 public:
  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "driftgate-tls-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    run("req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem "
        "-addext basicConstraints=critical,CA:TRUE");
    sign("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
    sign("expired", "subjectAltName=DNS:localhost,IP:127.0.0.1", -1);
    sign("elsewhere", "subjectAltName=DNS:elsewhere.example,IP:192.0.2.1");
    sign("client", "extendedKeyUsage=clientAuth");
    run("req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=stranger -keyout stranger.key -out stranger.pem");
  }
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  void run(const std::string& arguments) const {
    const std::string command = fmt::format("cd {} && openssl {} 2>/dev/null", folder_.string(), arguments);
    if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl failed: " + arguments);
  }
  void sign(const std::string& name, const std::string& extension, int days = 2) const {
    std::ofstream(file(name + ".ext")) << extension << '\n';
    run(fmt::format("req -newkey ed25519 -nodes -subj /CN={0} -keyout {0}.key -out {0}.csr", name));
    run(fmt::format(
        "x509 -req -in {0}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {1} -extfile {0}.ext "
        "-out {0}.pem",
        name, days));
  }
  std::filesystem::path folder_;
};

/// Made once for all tests of a program.
inline const Certificates& certificates() {
  static const Certificates made;
  return made;
}

}  // namespace driftgate::net::test
