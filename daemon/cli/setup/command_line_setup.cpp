#include "daemon/cli/command_parts.hpp"

namespace driftgate::cli {

void CommandLine::add_setup() {
  CLI::App* init =
      command(app_, "init", "Write a working folder: settings, apply file, first contract, README",
              {{"folder", init_.folder, "New or empty folder"}}, [this] { return init_command(init_); });
  init->add_option("--example", init_.example, "With a small real model and its two engines: tinylm");
  init->add_option("--train", init_.train, "Capture of K_train: suggest a first contract from it");
  init->add_option("--inf", init_.inf, "Capture of K_inf, for the same");
  init->add_option("--corpus", init_.corpus, "Sequences with their slices, JSON Lines, for the same");

  CLI::App* dev = command(app_, "dev", "Run the daemon of a working folder with its router, page and engines",
                          {}, [this] { return dev_command(dev_, hooks_.deployment); });
  dev->add_option("folder", dev_.folder, "Folder that 'driftgate init' wrote")->required();
  auto* detach = dev->add_flag("--detach", dev_.detach, "Return once everything runs");
  dev->add_flag("--stop", dev_.stop, "End what runs in the folder")->excludes(detach);

  CLI::App* doctor = client(app_, "doctor", "Say what is misconfigured, and what to do about it", {},
                            [this] { return doctor_command(doctor_, connection_, hooks_.deployment); });
  doctor->add_option("--config", doctor_.config, "Settings file of this machine's daemon");
  doctor->add_option("--data-dir", doctor_.data_dir, "Data folder, instead of the configured one");
  doctor->add_flag("--alive", doctor_.alive, "Only whether the daemon answers at all: for health checks");
}

void CommandLine::add_key_copy() {
  offline(*app_.get_subcommand("key"), "copy", "Copy the keys that backups do not contain",
          {{"--to", key_copy_.to, "Folder for the copies, kept apart from this machine"}}, [this] {
            key_copy_.config = offline_.config;
            key_copy_.data_dir = offline_.data_dir;
            key_copy_.json = offline_.json;
            return key_copy_command(key_copy_, hooks_.deployment);
          });
}

}  // namespace driftgate::cli
