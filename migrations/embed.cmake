# cmake -DOUTPUT=F -DFOLDER=D -P embed.cmake: writes the SQL files of D into the C++ source F as string literals.
file(GLOB files ${FOLDER}/[0-9][0-9][0-9][0-9]_*.sql)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  if(text MATCHES "\\)sql\"")
    message(FATAL_ERROR "${file} holds the end mark of a C++ string literal")
  endif()
  get_filename_component(name ${file} NAME_WE)
  string(SUBSTRING ${name} 0 4 digits)
  string(REGEX REPLACE "^0+" "" version ${digits})
  string(APPEND rows "    {${version}, \"${name}\", R\"sql(${text})sql\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"daemon/store/sqlite/migrate.hpp\"

namespace driftgate::store {

namespace {
constexpr Migration kMigrations[] = {
${rows}};
}  // namespace

std::span<const Migration> embedded_migrations() { return kMigrations; }

}  // namespace driftgate::store
")
